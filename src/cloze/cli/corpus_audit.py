"""`cloze corpus audit DATASET`: measure a data set and its training instances."""

from typing import TYPE_CHECKING, Any

from cloze.api.datasets import audit
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.data.audit import Audit


@verb(audit)
def show(measured: "Audit") -> tuple[dict[str, Any], str]:
    """Return the measurements."""
    from cloze.reports.audit_page import format_audit

    return measured.as_dict(), format_audit(measured)
