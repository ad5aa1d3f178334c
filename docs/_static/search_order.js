// Search results: sections of the page of questions come first. The other numbers are Sphinx's own.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => score + (docname === "questions" && anchor ? 50 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
