// A tag shows its formula; pictures open at full size; folds open for links; what is cut
// shows it and scrolls by keyboard; wide tables are cards on a phone; the sidebar shows the place.

// --- the formula of a tag, and who wrote a paper, under the pointer or the focus

const preview = document.createElement("div");
preview.className = "formula-preview";
preview.id = "formula-preview";
preview.setAttribute("role", "tooltip");
preview.hidden = true;

window.FORMULAS = {}; // tag -> its title and its formula, filled by _static/formulas/TAG.js
const folder = new URL("formulas/", document.currentScript.src);

function tagOf(link) {
  return link.hash.slice(1);
}

function preparePreview(link) {
  const known = FORMULAS[tagOf(link)];
  if (known) return showPreview(link, ...known);
  const script = document.createElement("script");
  script.src = new URL(`${tagOf(link)}.js`, folder);
  script.onload = () => link.matches(":hover, :focus") && showPreview(link, ...FORMULAS[tagOf(link)]);
  document.head.append(script);
}

function showPreview(link, title, html) {
  const formula = document.createElement("div");
  formula.innerHTML = html;
  show(link, `${tagOf(link).toUpperCase()}: ${title}`, formula);
}

function show(link, ...parts) {
  preview.replaceChildren(...parts);
  preview.hidden = false;
  link.setAttribute("aria-describedby", preview.id);
  const box = link.getBoundingClientRect();
  const right = document.documentElement.clientWidth - preview.offsetWidth - 8;
  const below = box.bottom + 6;
  const above = box.top - preview.offsetHeight - 6;
  const fits = below + preview.offsetHeight <= innerHeight || above < 0;
  preview.style.left = `${scrollX + Math.max(8, Math.min(box.left, right))}px`;
  preview.style.top = `${scrollY + (fits ? below : above)}px`;
}

function hidePreview() {
  preview.hidden = true;
}

function onLook(link, look) {
  for (const event of ["mouseenter", "focus"]) link.addEventListener(event, look);
  for (const event of ["mouseleave", "blur"]) link.addEventListener(event, hidePreview);
}

function preparePreviews() {
  document.body.append(preview);
  for (const link of document.querySelectorAll('a[href*="#eq-"]')) {
    if (link.matches(".sidebar-drawer *, .toc-drawer *, .headerlink")) continue;
    onLook(link, () => preparePreview(link));
  }
  for (const link of document.querySelectorAll("a.external[title]")) {
    const paper = link.title;
    link.removeAttribute("title"); // or the browser shows it, too
    onLook(link, () => show(link, paper));
  }
}

// --- pictures at full size

function prepareZoom() {
  const dialog = document.createElement("dialog");
  dialog.className = "zoom";
  dialog.setAttribute("aria-label", "picture at full size");
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  for (const link of document.querySelectorAll(".cell_output a.image-reference")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const shown = link.querySelector("img");
      const large = new Image();
      large.src = shown.src;
      large.alt = shown.alt;
      dialog.replaceChildren(large);
      dialog.showModal();
    });
  }
}

// --- folds

function openAround(element) {
  for (let box = element; box; box = box.parentElement) {
    if (box.tagName === "DETAILS") box.open = true;
  }
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target?.closest("details:not([open])")) return;
  openAround(target);
  target.scrollIntoView();
}

// --- what is cut: it scrolls by keyboard, too, and fades where more of it follows

function showCut(box) {
  const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
  box.classList.toggle("cut", left > 1);
}

function makeScrollable() {
  nameCells();
  for (const box of document.querySelectorAll("pre, .table-wrapper, div.math")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    showCut(box);
    box.onscroll = () => showCut(box);
  }
}

// --- wide tables: on a phone a row is a card, and each cell says what its column is

const WIDE = 4; // columns; or fewer, which do not fit

function nameCells() {
  for (const table of document.querySelectorAll("table.docutils:not(.wide)")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    const box = table.parentElement;
    if (heads.length < WIDE && box.scrollWidth <= box.clientWidth) continue;
    table.classList.add("wide");
    for (const row of table.querySelectorAll("tbody tr")) {
      for (const [place, cell] of [...row.cells].entries()) cell.dataset.column = heads[place];
    }
  }
}

// --- the sidebar begins where the reader is

function showPlace() {
  const place = document.querySelector(".sidebar-tree .current-page > a");
  const box = place?.closest(".sidebar-scroll");
  if (box) box.scrollTop = place.getBoundingClientRect().top - box.getBoundingClientRect().top - 120;
}

// --- the theme calls the captions of its sidebar headings, and forgets their level

function nameCaptions() {
  for (const caption of document.querySelectorAll(".caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
}

document.addEventListener("DOMContentLoaded", () => {
  nameCaptions();
  showPlace();
  preparePreviews();
  prepareZoom();
  openTarget();
  makeScrollable();
  document.querySelector("button.print")?.addEventListener("click", () => print());
  document.addEventListener("toggle", makeScrollable, true); // an opened fold has a width only now
  document.documentElement.dataset.ready = "1";
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  hidePreview();
  document.querySelector("dialog.zoom")?.close();
});
addEventListener("resize", makeScrollable);
addEventListener("hashchange", openTarget);
