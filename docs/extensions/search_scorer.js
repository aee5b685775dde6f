// Scores of the site's search: pages, then the pages of Python names, records, and the members of classes.
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
    if (kind === "object") return score - 3000;
    if (page.startsWith("records/")) return score - 2000;
    if (page.startsWith("reference/api/")) return score - 1000;
    return page === "start" || page.startsWith("guides/") ? score + 5 : score;
  },
};
