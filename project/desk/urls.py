"""The pages of the support desk."""

from __future__ import annotations

from django.urls import path

from project.desk import views

app_name = "desk"

urlpatterns = [
    path("", views.chat, name="chat"),
    path("new/", views.begin, name="new"),
    path("conversations/", views.conversations, name="conversations"),
    path("conversations/<str:key>/", views.conversation, name="conversation"),
    path("orders/", views.orders, name="orders"),
]
