"""The console: staff read, decide and rewind in the stock admin."""

from django.contrib import admin

from criogen_threads.admin.approvals import ApprovalAdmin
from criogen_threads.admin.threads import ThreadAdmin

__all__ = ["ApprovalAdmin", "ThreadAdmin"]

if admin.site.index_template is None:  # the number of waiting approvals; a site's own index stays as it is
    admin.site.index_template = "criogen_threads/admin/index.html"
