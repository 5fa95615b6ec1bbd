"""The support desk in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from project.desk.models import CallBack, Order

if TYPE_CHECKING:
    OrderAdminBase = admin.ModelAdmin[Order]
    CallBackAdminBase = admin.ModelAdmin[CallBack]
else:
    OrderAdminBase = CallBackAdminBase = admin.ModelAdmin


@admin.register(Order)
class OrderAdmin(OrderAdminBase):
    list_display = ["number", "customer", "item", "total", "refunded", "status"]
    list_filter = ["status"]
    search_fields = ["number", "customer", "item"]


@admin.register(CallBack)
class CallBackAdmin(CallBackAdminBase):
    list_display = ["phone", "when", "order", "created_at"]
    list_select_related = ["order"]
    search_fields = ["phone", "order__number"]
