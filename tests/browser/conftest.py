"""Pages of the system's Chromium, for the tests of `make test-browser`."""

import os
import shutil

import pytest
from tests.server.conftest import models_in_the_interpreter  # noqa: F401
from tests.server.serving import client_of

#: Nothing is fetched from elsewhere; root has no sandbox.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def playwright():
    """Playwright's driver."""
    if not os.environ.get("FIOL_BROWSER"):
        pytest.skip("make test-browser runs these tests")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as found:
        yield found


@pytest.fixture
def open_page(playwright, tmp_path_factory):
    """A function that opens a page in a browser with a profile of its own; errors in the page fail the test."""
    opened, wrong = [], []
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

    def open_(client, path_of_page="/", width=1280, expected=(), **options):
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=path,
            args=list(ARGUMENTS),
            viewport={"width": width, "height": 900},
            **options,
        )
        opened.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on(
            "console",
            lambda said: (
                wrong.append(said.text)
                if said.type == "error" and not any(text in said.text for text in expected)
                else None
            ),
        )
        page.goto(f"http://127.0.0.1:{client.port}{path_of_page}")
        return page

    yield open_
    for context in opened:
        context.close()
    assert wrong == []


@pytest.fixture
def client(tmp_path):
    """A client of a server with one empty model of two classes."""
    with client_of(tmp_path / "journal") as found:
        yield found
