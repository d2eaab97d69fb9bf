"""Ten years of attention in ten minutes: six models from 2014 to today, on one task and with one budget.

    result = weft.labs.history()            # or from the command line: weft history
    print(result)                           # the table and the verdicts
    result.save("history.html")             # a page without scripts and without references to other files

`models` has the six models, with what was new in each and its equations; `experiment` trains and measures them;
`judgment` says which claims held; `result` and `page` show it.
"""

from weft.apps.labs.history.experiment import history
from weft.apps.labs.history.result import HistoryResult

__all__ = ["HistoryResult", "history"]
