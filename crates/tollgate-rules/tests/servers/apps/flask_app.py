"""What Flask reads of a request, behind the WSGI server of Python's library."""

import sys
from wsgiref.simple_server import make_server

from flask import Flask, request

app = Flask(__name__)


def read(route):
    auth = request.authorization
    token = auth.token if auth and auth.type == "bearer" else None
    parts = (route, token, request.cookies.get("s"), request.headers.get("X-Api-Key"))
    return "|".join(part or "-" for part in parts)


@app.route("/login")
def login():
    return read("login")


@app.route("/token")
def token():
    return read("token")


@app.errorhandler(404)
def other(_):
    return read("other")


make_server("127.0.0.1", int(sys.argv[1]), app).serve_forever()
