"""What the support desk works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from decimal import Decimal


class Order(models.Model):
    """An order of the shop. Amounts are in euros."""

    class Status(models.TextChoices):
        PLACED = "placed", _("placed")
        SHIPPED = "shipped", _("shipped")
        DELIVERED = "delivered", _("delivered")
        CANCELLED = "cancelled", _("cancelled")

    number = models.CharField(_("number"), max_length=20, unique=True)
    customer = models.CharField(_("customer"), max_length=100)
    item = models.CharField(_("item"), max_length=200)
    total = models.DecimalField(_("total"), max_digits=10, decimal_places=2)
    refunded = models.DecimalField(_("refunded"), max_digits=10, decimal_places=2, default=0)
    status = models.CharField(_("status"), max_length=9, choices=Status, default=Status.PLACED)

    class Meta:
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        ordering = ["number"]
        constraints = [
            models.CheckConstraint(
                name="desk_order_refunded",
                condition=models.Q(refunded__gte=0, refunded__lte=models.F("total")),
            )
        ]

    def __str__(self) -> str:
        return self.number

    @property
    def refundable(self) -> Decimal:
        return self.total - self.refunded


class CallBack(models.Model):
    """A promise to call a customer."""

    order = models.ForeignKey(
        Order, models.CASCADE, null=True, blank=True, related_name="call_backs", verbose_name=_("order")
    )
    phone = models.CharField(_("phone"), max_length=40)
    when = models.CharField(_("when"), max_length=100, help_text=_("In the customer's words."))
    note = models.TextField(_("note"), blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("call-back")
        verbose_name_plural = _("call-backs")
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.phone}, {self.when}"
