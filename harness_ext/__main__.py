"""`python -m harness_ext` is `taskvec`, also where start-up files are switched off."""

import sys

from harness_ext.cli import main

sys.exit(main())
