// Scores of the site's search: pages before records, and records before the reference of Python objects.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, , , , score, , kind]) => {
    if (kind === "object" || page.startsWith("reference/api")) return score - 2000;
    if (page.startsWith("records/")) return score - 1000;
    return page === "start" || page.startsWith("guides/") ? score + 5 : score;
  },
};
