"""What Starlette reads of a request, behind uvicorn."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route


def read(route):
    async def answer(request):
        # As the documentation of Starlette's authentication does.
        auth = request.headers.get("Authorization", "").split()
        token = auth[1] if len(auth) == 2 and auth[0].lower() == "bearer" else None
        parts = (route, token, request.cookies.get("s"), request.headers.get("X-Api-Key"))
        return PlainTextResponse("|".join(part or "-" for part in parts))

    return answer


app = Starlette(
    routes=[
        Route("/login", read("login")),
        Route("/token", read("token")),
        Route("/{path:path}", read("other")),
    ]
)

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
