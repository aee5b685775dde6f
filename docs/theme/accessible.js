// Accessibility that the theme lacks: the level of caption headings, and keyboard focus for scrollable tables and code.
function complete() {
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.setAttribute("aria-level", "2");
  for (const area of document.querySelectorAll(".table-wrapper, pre")) {
    if (area.scrollWidth > area.clientWidth) area.tabIndex = 0;
    else area.removeAttribute("tabindex");
  }
}
document.addEventListener("DOMContentLoaded", complete);
addEventListener("resize", complete);
