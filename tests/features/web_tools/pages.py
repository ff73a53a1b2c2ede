"""Pages on this machine, and a record of their requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.tools.support import pdf_file

SENTENCE = "The tide rises twice a day, and the moon is why. "
ARTICLE = f"""<!doctype html><html><head><title>Tides
 explained</title><style>p {{ color: red }}</style></head><body>
<nav><a href="/">Home</a><a href="/about">About us</a></nav>
<main><h1>Tides</h1><p>{SENTENCE * 10}</p><ul><li>spring</li><li>neap</li></ul>
<pre><code>height = 3</code></pre><a href="https://moon.example/">moon</a>
<script>document.title = "from a script"</script></main>
<footer>Imprint</footer></body></html>"""
BUILT = """<!doctype html><html><head><title>Loading</title></head><body><div id="app">Please wait</div>
<script>
setTimeout(() => {{
  document.title = "Built";
  document.getElementById("app").innerHTML = "<h1>Built by a script</h1>";
  const keep = text => {{ document.body.dataset.leak = text }};
  fetch("{other}/secret").then(answer => answer.text()).then(keep).catch(() => {{}});
}}, 100);
</script></body></html>"""
SINGLE_PAGE = """<div id="root"></div><script>
setTimeout(() => { root.innerHTML = "<main><h1>Drawn late</h1></main>" }, 300)</script>"""
DATA_PAGE = """<div id="a">empty</div><script>
onload = () => fetch("/late-data").then(r => r.text()).then(t => { a.textContent = t })</script>"""
ASTRAY = "<p>Led astray</p><script>location = 'http://10.0.0.1/'</script>"
WAITING = "<img src='/slow'><script>document.body.innerHTML += '<p>Built meanwhile</p>'</script>"
LINKS = """<main><a href="next">next</a><a href="/top">top</a><a href="//[">odd</a><a
 href="https://else.example/a">else</a><a href="mailto:ada@x">Ada</a><img src="picture.png" alt="picture">
<img src="data:image/png;base64,AAAA" alt="dot"></main>"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000100000001080600000"
    "01f15c4890000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082"
)


def moved(to: str) -> web.Response:
    """A redirect."""
    return web.Response(status=302, headers={"Location": to})


class Site:
    """The served pages; requested paths are recorded."""

    def __init__(self) -> None:
        self.base = ""
        self.other = ""
        """Address from which the script-built page tries to read a secret."""
        self.asked: list[str] = []
        self.is_over = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Everything."""
        self.asked.append(request.path_qs)
        path = request.path
        html = {
            "/": ARTICLE,
            "/built": BUILT.format(other=self.other),
            "/empty": "",
            "/astray": ASTRAY,
            "/waiting": WAITING,
            "/links/page": LINKS,
            "/based": '<base href="https://cdn.example/docs/"><p>Go <a href="next">on</a></p>',
            "/single-page": SINGLE_PAGE,
            "/data-page": DATA_PAGE,
            "/textless": "<title>Nothing</title><body><div id=root></div><script>0</script>",
            "/titled": f"<title>{'tide ' * 200}</title><main><p>high water</p></main>",
            "/long": f"<main>{'<p>high water</p>' * 1000}</main>",
        }
        if path in html:
            return web.Response(text=html[path], content_type="text/html")
        if path.startswith("/hop/"):
            left = int(path.removeprefix("/hop/"))
            return moved(f"/hop/{left - 1}" if left else "/")
        if path == "/away":
            return moved(request.query["to"])
        if path == "/slow":
            await self.is_over.wait()
        if path == "/once":
            status = 200 if self.asked.count(path) == 1 else 429
            return web.Response(text=f"<p>Status {status}</p>", content_type="text/html", status=status)
        if path == "/latin":
            body = "<html><body><main>Größe: café</main></body></html>".encode("latin-1")
            return web.Response(body=body, headers={"Content-Type": "text/html; charset=latin1"})
        if path == "/meta":
            body = '<html><head><meta charset="shift_jis"></head><body>日本</body></html>'.encode("shift_jis")
            return web.Response(body=body, headers={"Content-Type": "text/html"})
        if path == "/json":
            return web.json_response({"tide": 3})
        if path == "/picture":
            return web.Response(body=PNG, content_type="image/png")
        if path in ("/Makefile", "/program"):
            body = "all:\n\techo größer\n".encode() if path == "/Makefile" else b"\x7fELF\xff\xfe"
            return web.Response(body=body, content_type="application/octet-stream")
        if path == "/pdf":
            return web.Response(body=b"%PDF-1.7 ...", content_type="application/pdf")
        if path == "/unnamed-pdf":
            return web.Response(body=b"%PDF-1.7 \xff\xfe", content_type="application/octet-stream")
        if path == "/tides.pdf":
            return web.Response(body=pdf_file("Spring tide", "Neap tide"), content_type="application/pdf")
        if path == "/late-data":
            await asyncio.sleep(0.2)
            return web.Response(text="from the service")
        if path == "/secret":
            return web.Response(text="secret", headers={"Access-Control-Allow-Origin": "*"})
        if path == "/endless":
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await response.prepare(request)
            for _ in range(400):
                await response.write(b"x" * 65_536)
            return response
        return web.Response(text="gone", status=404)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Serve until the block ends."""
    served = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.answer)
    server = TestServer(app)
    await server.start_server()
    served.base = served.other = str(server.make_url("")).rstrip("/")
    try:
        yield served
    finally:
        served.is_over.set()
        await server.close()
