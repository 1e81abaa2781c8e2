// How the search ranks what it finds: a lesson before its copies for print, its solution, its code.
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
