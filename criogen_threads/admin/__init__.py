"""The console: staff read, decide and rewind in the stock admin.

``threads`` and ``approvals`` are its two lists, ``filters`` and ``ages`` narrow and date them, ``base`` is what their
pages share. Of a thread, ``reading`` has the pages: ``story`` (what was said), ``measures`` (runs), ``branching``
(history), ``happenings`` (events), a few rows at a time by ``paging``; ``acting`` does things to it, after
``consequences`` has said what they mean; ``exports`` makes files of it, which ``files`` sends. Of an approval,
``deciding`` has the page, ``forms`` its arguments, ``asking`` who asked whom, ``bulk`` many at once. ``text`` shows
what others wrote.
"""

from django.contrib import admin

from criogen_threads.admin.approvals import ApprovalAdmin
from criogen_threads.admin.threads import ThreadAdmin

__all__ = ["ApprovalAdmin", "ThreadAdmin"]

if admin.site.index_template is None:  # the number of waiting approvals; a site's own index stays as it is
    admin.site.index_template = "criogen_threads/admin/index.html"
