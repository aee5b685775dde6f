"""`python -m cloze` is `cloze`."""

import sys

from cloze.cli import main

sys.exit(main())
