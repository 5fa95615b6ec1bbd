"""Telling people: those who may answer an approval that it waits, and who asked that it was answered.

By e-mail (``NOTIFY_EMAIL``) and by a signed webhook (``NOTIFY_WEBHOOK``). A notice is sent after the commit, from
threads of its own, and repeated when that fails; no run waits for it, and a process that dies before it is sent never
sends it: the queue of approvals is the record. It names the tool and the thread, and none of what was said. Somebody
who is shown nothing of a call (``redaction``) is not written to, and a call of an asked agent is told to a person as
that of the conversation that they know.

The webhook is read by the site itself, which is shown everything. It is a POST of JSON with ``X-Criogen-Timestamp`` and
``X-Criogen-Signature``, the hex HMAC-SHA256 of ``<timestamp>.<body>`` with ``NOTIFY_SECRET``; ``id`` in the body is the
same on every try.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage
from django.db.models import Q
from django.dispatch import receiver
from django.urls import NoReverseMatch, reverse
from django.utils import translation
from django.utils.translation import gettext as _

from criogen_threads import redaction
from criogen_threads.conf import settings
from criogen_threads.engine import background
from criogen_threads.engine.pools import DaemonPool
from criogen_threads.engine.trees import approval_views
from criogen_threads.ids import new_id
from criogen_threads.models import ToolCall
from criogen_threads.policy import get_policy
from criogen_threads.signals import approval_decided, approval_requested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

logger = logging.getLogger("criogen_threads")

MOST_PEOPLE = 200
"""Members of the staff who are written to about one approval."""

TIMEOUT = 10.0
"""Seconds that a webhook may take to answer."""

_pool = DaemonPool("criogen-notices", lambda: 2)


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened: ``kind`` is "approval_requested" or "approval_decided"."""

    kind: str
    call: ToolCall
    id: UUID

    @property
    def address(self) -> str:
        """The approval's page in the admin; "" where the site has none, or does not say where it is."""
        if not settings.NOTIFY_SITE:
            return ""
        try:
            path = reverse("admin:criogen_threads_approval_change", args=[self.call.pk])
        except NoReverseMatch:
            return ""
        return settings.NOTIFY_SITE.rstrip("/") + path


@receiver(approval_requested, dispatch_uid="criogen_threads.notices")
def _requested(sender: Any, *, call_id: UUID, **_: Any) -> None:  # noqa: ARG001
    _begin("approval_requested", call_id)


@receiver(approval_decided, dispatch_uid="criogen_threads.notices")
def _decided(sender: Any, *, call_id: UUID, **_: Any) -> None:  # noqa: ARG001
    _begin("approval_decided", call_id)


def _begin(kind: str, call_id: UUID) -> None:
    if not (settings.NOTIFY_EMAIL or settings.NOTIFY_WEBHOOK):
        return
    if settings.IN_CALLING_THREAD:
        for send in deliveries(kind, call_id):
            send()
        return
    background.spawn(_deliver(kind, call_id))


async def _deliver(kind: str, call_id: UUID) -> None:
    sends = await _patiently(partial(deliveries, kind, call_id))
    await asyncio.gather(*(_patiently(send) for send in sends or ()))


async def _patiently(job: Callable[[], Any]) -> Any:
    """Do something that may fail for a passing reason; None where it failed every time."""
    pause = settings.NOTIFY_BACKOFF
    for left in range(settings.NOTIFY_RETRIES, -1, -1):
        try:
            return await _pool.submit(job)
        except Exception:
            if not left:
                logger.exception("A notice could not be sent; nobody is told by it")
                return None
            logger.warning("A notice could not be sent; it is tried again in %g s", pause, exc_info=True)
        await asyncio.sleep(pause)
        pause *= 2
    return None


def deliveries(kind: str, call_id: UUID) -> list[Callable[[], None]]:
    """Everything that is to be sent about an approval, each on its own, so that one failure repeats nothing else."""
    related = ("thread", "thread__owner", "message", "run", "run__actor", "run__parent_run", "decided_by")
    call = ToolCall.objects.select_related(*related).filter(pk=call_id).first()
    if call is None:
        return []
    notice = Notice(kind, call, new_id())
    sends: list[Callable[[], None]] = []
    if settings.NOTIFY_EMAIL:
        sends += [message.send for message in _mails(notice)]  # type: ignore[misc]
    if settings.NOTIFY_WEBHOOK:
        sends.append(partial(_post, settings.NOTIFY_WEBHOOK, json.dumps(_body(notice)).encode()))
    return sends


# E-mail --------------------------------------------------------------------------------------------------------------


def _mails(notice: Notice) -> Iterator[EmailMessage]:
    call = notice.call
    people = _answerers(call) if notice.kind == "approval_requested" else _asker(call)
    addressed = [(person, getattr(person, type(person).get_email_field_name(), "")) for person in people]
    views = approval_views([call])
    for person, address in addressed:
        for view in redaction.approvals(views if address else (), redaction.audience(person, call.thread)):
            with translation.override(call.run.locale or translation.get_language()):
                yield EmailMessage(_subject(notice), _text(notice, person, _named(views[0], view, call)), to=[address])


def _named(full: dict[str, Any], shown: dict[str, Any], call: ToolCall) -> dict[str, str]:
    """What a person is told of a call by name: the thread is the one that people speak in."""
    thread = full["chain"][0]["thread"] if full["chain"] else call.thread.key
    return {"tool": shown["name"], "agent": shown["agent"], "thread": thread}


def _answerers(call: ToolCall) -> list[Any]:
    """Those who may answer it."""
    if call.approver == "owner":
        return [call.thread.owner] if call.thread.owner else []
    named = {"content_type__app_label": "criogen_threads", "codename": "decide_toolcall"}
    by_user = Q(**{f"user_permissions__{name}": value for name, value in named.items()})
    by_group = Q(**{f"groups__permissions__{name}": value for name, value in named.items()})
    staff = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
    able = staff.filter(Q(is_superuser=True) | by_user | by_group).distinct().order_by("pk")
    policy = get_policy()
    return [person for person in able[:MOST_PEOPLE] if policy.decide(person, call, call.thread, call.run)]


def _asker(call: ToolCall) -> list[Any]:
    """Who asked, unless they answered it themselves."""
    asker = call.run.actor or call.thread.owner
    return [asker] if asker and asker.pk != call.decided_by_id and asker.is_active else []


def _subject(notice: Notice) -> str:
    named = {"tool": notice.call.name}
    if notice.kind == "approval_requested":
        text = _("An approval waits: %(tool)s") % named
    elif notice.call.approved:
        text = _("Approved: %(tool)s") % named
    else:
        text = _("Not approved: %(tool)s") % named
    return " ".join(text.split())


def _text(notice: Notice, person: Any, named: dict[str, str]) -> str:
    if notice.kind == "approval_requested":
        lines = [
            _("The agent %(agent)s wants to use %(tool)s in the thread %(thread)s, and waits for an answer.") % named
        ]
    elif notice.call.approved:
        lines = [_("The use of %(tool)s in the thread %(thread)s was approved.") % named]
    else:
        lines = [_("The use of %(tool)s in the thread %(thread)s was not approved.") % named]
    if notice.address and person.is_staff:
        lines.append(notice.address)
    return "\n\n".join(lines) + "\n"


# Webhook -------------------------------------------------------------------------------------------------------------


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = build_opener(_NoRedirects)


def _body(notice: Notice) -> dict[str, Any]:
    call = notice.call
    return {
        "id": str(notice.id),
        "type": notice.kind,
        "thread": call.thread.key,
        "agent": call.agent,
        "run": str(call.run_id),
        "call": str(call.pk),
        "tool": call.name,
        "approver": call.approver,
        "status": call.status,
        "approved": call.approved,
        "decided_by": None if call.decided_by_id is None else str(call.decided_by_id),
        "url": notice.address,
    }


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What ``X-Criogen-Signature`` has to be, for whoever checks it: hex."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _post(address: str, body: bytes) -> None:
    """Raises whatever goes wrong, an answer that is not 2xx included."""
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "X-Criogen-Timestamp": timestamp,
        "X-Criogen-Signature": signature(settings.NOTIFY_SECRET, timestamp, body),
    }
    if not address.startswith(("https://", "http://")) or not settings.NOTIFY_SECRET:
        raise ValueError("NOTIFY_WEBHOOK is an http(s) address, and NOTIFY_SECRET must be set")
    request = Request(address, body, headers, method="POST")  # noqa: S310 (checked above)
    try:
        _opener.open(request, timeout=TIMEOUT).close()
    except HTTPError as refusal:
        refusal.close()
        raise ConnectionError(f"the webhook answered {refusal.code}") from None
