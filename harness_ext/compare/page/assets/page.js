"use strict";
// Adds sorting and filtering to tables that are complete without it. Text from results enters
// through textContent alone.
(() => {
  const collator = new Intl.Collator("en", { numeric: true });

  function compare(column, first, second) {
    const [a, b] = [first, second].map((row) => row.cells[column]);
    if (a.closest("table").tHead.rows[0].cells[column].dataset.sort === "text") {
      return collator.compare(a.textContent.trim(), b.textContent.trim());
    }
    return Number(a.dataset.value) - Number(b.dataset.value);
  }

  function sort(table, header, announce) {
    const column = header.cellIndex;
    const was = header.getAttribute("aria-sort");
    const start = header.dataset.first || (header.dataset.sort === "text" ? "ascending" : "descending");
    const other = { ascending: "descending", descending: "ascending" };
    const order = was ? other[was] : start;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const rows = [...table.tBodies[0].rows];
    const known = (row) => header.dataset.sort === "text" || "value" in row.cells[column].dataset;
    const sorted = rows.filter(known).sort((a, b) => compare(column, a, b) * (order === "ascending" ? 1 : -1));
    // What was not evaluated stays below in both directions.
    table.tBodies[0].append(...sorted, ...rows.filter((row) => !known(row)));
    announce(`Sorted by ${header.dataset.label}, ${order}.`);
  }

  function addSorting(table, announce) {
    for (const header of table.tHead.rows[0].cells) {
      if (!header.dataset.sort) continue;
      const button = document.createElement("button");
      button.type = "button";
      const label = document.createElement("span");
      label.append(...header.childNodes);
      const arrow = document.createElement("span");
      arrow.className = "arrow";
      arrow.setAttribute("aria-hidden", "true");
      button.append(label, arrow);
      header.append(button);
      header.dataset.label = label.textContent.trim();
      button.addEventListener("click", () => sort(table, header, announce));
    }
  }

  function addFilters(form, table, announce) {
    const rows = [...table.tBodies[0].rows];
    const headers = [...table.tHead.rows[0].cells];
    const { model, method, shots, columns, search } = form.elements;

    function apply() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shownRows = 0;
      for (const row of rows) {
        const text = row.cells[0].textContent.toLowerCase();
        const chosen = [["model", model], ["method", method], ["shots", shots]].every(
          ([name, select]) => select.value === "" || row.dataset[name] === select.value,
        );
        row.hidden = !(chosen && words.every((word) => text.includes(word)));
        shownRows += row.hidden ? 0 : 1;
      }
      let shownColumns = 0;
      headers.forEach((header, index) => {
        if (index === 0) return;
        const sets = (header.dataset.sets || "").split(" ");
        const hide = columns.value !== "" && !sets.includes(columns.value);
        shownColumns += hide ? 0 : 1;
        header.hidden = hide;
        for (const row of rows) row.cells[index].hidden = hide;
      });
      announce(`${shownRows} of ${rows.length} rows, ${shownColumns} of ${headers.length - 1} columns shown.`);
    }

    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(apply));
    form.hidden = false;
    apply();
  }

  const status = document.getElementById("status");
  const announce = (text) => {
    status.textContent = text;
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) addSorting(table, announce);
  const form = document.getElementById("filters");
  const board = document.getElementById("board");
  if (form && board) addFilters(form, board, announce);
  if (status) status.hidden = false;
})();
