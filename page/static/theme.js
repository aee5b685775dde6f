// Runs before the page is painted, so that it never flashes in the other colors.
"use strict";

{
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
