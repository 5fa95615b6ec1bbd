"""The agents that a user may talk to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.response import Response

from criogen_threads.agents import all_agents
from criogen_threads.api import shapes
from criogen_threads.api.base import View
from criogen_threads.api.openapi import describe
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from rest_framework.request import Request


class Agents(View):
    """``agents/``"""

    @describe({200: shapes.AgentList}, name="agents_list")
    def index(self, request: Request) -> Response:
        """The agents that this user may talk to, by name."""
        policy = get_policy()
        agents = [agent for agent in all_agents() if policy.use(request.user, agent.name)]
        views = [{"name": agent.name, "description": agent.description} for agent in agents]
        return Response({"results": views, "next": None})
