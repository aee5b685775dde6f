"""Complete the metadata: the project's addresses, and a README whose links work outside of the repository.

`CLOZE_REPOSITORY`, as in https://github.com/OWNER/NAME, is where the release is published from; without it there are no
addresses, and the README is as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)]+)\)")


class PageMetadata(MetadataHookInterface):
    """Sets `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the table `project`."""
        text = Path(self.root, "README.md").read_text("utf-8")
        if repository := os.environ.get("CLOZE_REPOSITORY"):
            version = f"v{metadata['version']}"
            owner, name = repository.split("/")[-2:]
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"https://{owner}.github.io/{name}/",
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/{version}/CHANGELOG.md",
            }

            def absolute(link: re.Match[str]) -> str:
                kind = "raw" if link["image"] else "blob"
                return f"{link['image']}[{link['text']}]({repository}/{kind}/{version}/{link['path']})"

            text = LINK.sub(absolute, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
