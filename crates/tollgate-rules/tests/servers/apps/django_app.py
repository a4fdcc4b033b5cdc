"""What Django and its REST framework read of a request, behind the WSGI server of Python's library."""

import sys
from wsgiref.simple_server import make_server

import django
from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x", MIDDLEWARE=[])
django.setup()

from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path
from rest_framework.authentication import get_authorization_header


def read(request, route="other"):
    auth = get_authorization_header(request).split()
    token = auth[1].decode("latin1") if len(auth) == 2 and auth[0].lower() == b"bearer" else None
    parts = (route, token, request.COOKIES.get("s"), request.headers.get("X-Api-Key"))
    return HttpResponse("|".join(part or "-" for part in parts))


urlpatterns = [
    re_path(r"^login$", read, {"route": "login"}),
    re_path(r"^token$", read, {"route": "token"}),
    re_path(r"", read),
]

make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application()).serve_forever()
