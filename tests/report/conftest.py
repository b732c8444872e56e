"""A real browser for the tests that open reports."""

from __future__ import annotations

import pytest


class Visit:
    """An open page, what it asked the network for and what it complained of."""

    def __init__(self, browser, path, **options):
        self.requests, self.complaints = [], []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.address = path.resolve().as_uri()
        self.page.goto(self.address)

    def ask(self, script, *arguments):
        return self.page.evaluate(script, *arguments)

    def was_quiet(self):
        outside = [url for url in self.requests if not url.startswith(("data:", self.address))]
        return outside == [] and self.complaints == []


@pytest.fixture
def visit(browser):
    """`visit(path, width=390, dark=True)` opens a report; afterwards it must have been quiet."""
    visits = []

    def open_page(path, *, width=1280, dark=False):
        visits.append(
            Visit(
                browser,
                path,
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
            )
        )
        return visits[-1]

    yield open_page
    for one in visits:
        one.context.close()
        assert one.was_quiet(), (one.requests, one.complaints)
