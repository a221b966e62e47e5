"""Grids of models, methods, tasks, shots and seeds: `taskvec bench`.

grid_file reads what is asked for, planning checks it and sees what is finished, runner evaluates.
"""
