import sys

import pytest
import torch

from weft.memory import keep_freed_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_memory_can_be_kept_and_used() -> None:
    assert keep_freed_memory() in (True, False)
    assert float(torch.ones(1 << 24).sum()) == 1 << 24
