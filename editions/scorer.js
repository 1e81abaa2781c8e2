// How the search ranks what it finds: a lesson before its copies for print, its solution, its code.
// This file is read after Sphinx' searchtools.js.
const MAIN_ROAD = /^\d\d_/;
const SIDE_LESSON = /^\d\d[a-z]_/;
const COPIES = /^(solutions|exercises|lectures|_modules|reference\/derivation)/;

function preferred(page) {
  if (MAIN_ROAD.test(page)) return 4;
  if (SIDE_LESSON.test(page)) return 3;
  return COPIES.test(page) ? -4 : 0;
}

// The other numbers are those of Sphinx.
var Scorer = {
  score: ([page, , , , score]) => score + preferred(page),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// "eigenvalues" finds what the index has as "eigenvalue"; "loss", "axis" and "RMS" stay as they are.
function singular(query) {
  return query.length > 5 && /[^isu]s$/.test(query) ? query.slice(0, -1) : query;
}

function isHeading([, , anchor, , , , kind]) {
  return kind === "title" && anchor !== "";
}

// A page is one result, where its best hit stands, and is named by a heading that was hit, too.
// Each function or class of the library is a result of its own. The best comes last here.
function onceAPage(results) {
  const kept = new Map();
  for (const result of results) {
    const [page, , anchor, , , , kind] = result;
    const isOwn = kind === "object" && !anchor.startsWith("#module-");
    const key = isOwn ? page + anchor : page;
    const before = kept.get(key);
    kept.delete(key); // or it would keep its old place
    if (before && isHeading(before) && !isHeading(result)) result.splice(1, 2, before[1], before[2]);
    kept.set(key, result);
  }
  return [...kept.values()];
}

// Who asks for layers.RMSNorm or rms_norm means the library.
function objectsLast(results, query) {
  const isAsked = ([, name]) => /[._]/.test(query) && `.${name}`.endsWith(`.${query}`);
  return [...results.filter((result) => !isAsked(result)), ...results.filter(isAsked)];
}

const search = Search._performSearch;
Search._performSearch = (query, ...terms) => {
  return objectsLast(onceAPage(search(singular(query.trim()), ...terms)), query.trim());
};
