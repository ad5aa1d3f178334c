"""The dashboard in a browser: live figures, roll-back, tokens, themes, phones, screen readers, hostile text."""

import pytest
from tests.server.serving import client_of, learn, predict, row, rows

from fiol.server.access import Access

READ, WRITE = "a-token-that-may-read", "a-token-that-may-write"
#: A text that would run if it were taken for markup.
HOSTILE = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>\'"&'
#: Messages of the browser's console about requests that are meant to fail.
REFUSED, GONE = "Failed to load resource", "net::ERR_"


def value(page, name):
    """The value of a tile or of a fact, as a locator."""
    return page.locator("dl > div").filter(has=page.locator(f"dt:text-is('{name}')")).locator("dd").first


def wait_for(locator, text):
    """Wait until an element has exactly this text."""
    from playwright.sync_api import expect

    expect(locator).to_have_text(text, timeout=20_000)


def wait_live(page, text="Live"):
    """Wait until events come."""
    wait_for(page.locator("#connection"), text)


def chart_table(page, panel):
    """Return the text of every cell of the table under a chart, row by row."""
    return [line.locator("th, td").all_inner_texts() for line in page.locator(f"#{panel} .data table tr").all()]


# --- live figures -----------------------------------------------------------------------------


def test_figures_update_without_a_reload(client, open_page):
    page = open_page(client)
    wait_live(page)
    wait_for(value(page, "Rows learned"), "0")
    assert "No rows learned yet" in page.locator("#loss .empty").inner_text()
    for k in range(30):
        predict(client, {"features": row(k)[0], "id": f"{k}"})
    learn(client, {"rows": [{"id": f"{k}", "label": row(k)[1]} for k in range(20)]})
    learn(client, {"rows": rows(30, 130)})
    wait_for(value(page, "Rows learned"), "120")
    wait_for(value(page, "Predicted"), "30")
    wait_for(value(page, "Labeled"), "20")
    wait_for(value(page, "Pending"), "10")
    page.locator("#loss canvas").wait_for()
    assert not page.locator("#loss .empty").is_visible()


def test_table_of_the_loss_has_the_figures_of_the_server(client, open_page):
    learn(client, {"rows": rows(0, 250)})
    page = open_page(client)
    page.locator("#loss canvas").wait_for()
    client.run_in_writer(client.registry.models["m"].publish)
    windows = client.get("/status").json()["models"][0]["metrics"]["windows"]
    head, *body = chart_table(page, "loss")
    members = [f"Member {k + 1}" for k in range(len(windows["members"]))]
    assert head == ["rows learned", *members, "Best constant", "All rows so far", "Loss"]
    assert [cells[0] for cells in body] == ["200", "100"]
    assert [cells[-1] for cells in body] == [f"{loss:.3f}" for loss in reversed(windows["loss"])]
    assert [cells[-3] for cells in body] == [f"{loss:.3f}" for loss in reversed(windows["constant_loss"])]


def test_stream_opens_again_after_a_restart(tmp_path, open_page):
    with client_of(tmp_path) as client:
        port = client.port
        learn(client, {"rows": rows(0, 10)})
        page = open_page(client, expected=(GONE,))
        wait_for(value(page, "Rows learned"), "10")
    wait_live(page, "Reconnecting")
    with client_of(tmp_path, port=port) as client:
        learn(client, {"rows": rows(10, 15)})
        wait_live(page)
        wait_for(value(page, "Rows learned"), "15")
        page.goto("about:blank")


def test_shadow_is_shown_beside_its_live_model(client, open_page):
    client.request("PUT", "/models/candidate", {"copy_of": "m", "shadow_of": "m"})
    learn(client, {"rows": rows(0, 120)})
    page = open_page(client)
    shadow = page.locator("#shadows tbody tr")
    wait_for(shadow.locator("th"), "candidate")
    wait_for(shadow.locator("td").first, "120")
    page.get_by_role("link", name="candidate (shadow)").click()
    wait_for(page.locator("h1"), "candidate")
    assert not page.locator("#shadows").is_visible()


def test_drift_is_marked_and_described(client, open_page):
    learn(client, {"rows": rows(0, 200)})
    mark = {"rows": 150, "time": 1.7e9, "before": 0.25, "after": 0.75}
    client.run_in_writer(lambda: client.registry.models["m"].metrics.drift.marks.append(mark))
    page = open_page(client)
    page.locator("#loss .marks li").wait_for()
    text = page.locator("#loss .marks li").inner_text()
    assert "at row 150" in text
    assert "0.250 to 0.750" in text
    assert "marks of drift: 1" in page.locator("#loss .chart").get_attribute("aria-label")


def test_errors_and_weights_are_listed(client, open_page):
    page = open_page(client)
    wait_live(page)
    client.server.status.compare_weights()  # changes are those since then
    learn(client, {"rows": rows(0, 30)})
    for _ in range(2):
        learn(client, {"features": {"size": "large"}, "label": "yes"})
    wait_for(page.locator("#errors tbody td.number"), "2")
    cells = page.locator("#errors tbody tr").first.locator("th, td").all_inner_texts()
    assert cells[1:] == ["422", "/models/{name}/learn", "2", "a row was refused for its column 'size'"]
    page.locator("#weights tbody th", has_text="color=").first.wait_for()


def test_samples_of_the_page_are_bounded(client, open_page):
    page = open_page(client)
    wait_live(page)
    found = page.evaluate(
        """async () => {
            const { addSample, SAMPLES_KEPT } = await import("/static/samples.js");
            const columns = {};
            for (let k = 0; k < 3000; k += 1) {
                addSample(columns, { time: k, a: k });
                addSample(columns, { time: k, a: -1 });
            }
            addSample(columns, { time: 3000, a: 1, b: 2 });
            return [SAMPLES_KEPT, ...Object.values(columns).map((one) => one.length), columns.time[0], columns.b[0]];
        }"""
    )
    assert found == [900, 900, 900, 900, 2101, None]


def test_windows_of_two_models_are_compared_over_the_same_time(client, open_page):
    page = open_page(client)
    wait_live(page)
    losses, since, merged = page.evaluate(
        """async () => {
            const { lossAtTimes, lossSince, mergedWindows } = await import("/static/model_panels.js");
            const shadow = { time: [25, 35, 38], loss: [1, 2, 5], mass: [10, 30, 10] };
            const live = { time: [10, 20, 30, 40], loss: [1, 2, 3, 5], mass: [1, 1, 1, 3] };
            const same = Array(161).fill(2);
            const many = { rows: same, mass: same, time: same, loss: same.map((_, k) => k), constant_loss: same,
                           prediction: same, label: same, unseen: same, members: [same] };
            const { rows, loss, total, members } = mergedWindows(many);
            return [lossAtTimes([10, 20, 30, 40, 50], shadow), lossSince(live, 25),
                    [rows.slice(0, 2), loss.slice(0, 2), total.slice(0, 2), rows.length, members[0].length]];
        }"""
    )
    assert losses == [None, None, 1, (2 * 30 + 5 * 10) / 40, (2 * 30 + 5 * 10) / 40]
    assert since == (3 + 5 * 3) / 4
    assert merged == [[6, 12], [1, 4], [1, 2.5], 54, 54]  # three windows in each, two in the last


# --- changes ----------------------------------------------------------------------------------


def snapshot_of_40_rows(client, headers=()):
    """Learn 40 rows, take a snapshot, and learn 20 more."""
    client.post("/models/m/learn", {"rows": rows(0, 40)}, headers=headers)
    client.post("/models/m/snapshots", headers=headers)
    client.post("/models/m/learn", {"rows": rows(40, 60)}, headers=headers)


def test_roll_back_needs_a_confirmation(client, open_page):
    snapshot_of_40_rows(client)
    model = client.registry.models["m"]
    page = open_page(client)
    button = page.get_by_role("button", name="40 rounds")
    button.click()
    dialog = page.get_by_role("dialog", name="Roll back m?")
    dialog.wait_for()
    assert "20 rounds" in dialog.inner_text()
    assert dialog.get_by_role("button", name="Cancel").evaluate("element => element === document.activeElement")
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="hidden")
    button.click()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert button.evaluate("element => element === document.activeElement")
    assert model.model.rounds == 60
    button.click()
    dialog.get_by_role("button", name="Roll back").click()
    dialog.wait_for(state="hidden")
    assert model.model.rounds == 40
    wait_for(page.locator("#snapshots tbody tr").nth(1).locator("td").nth(1), "60")  # what was replaced is saved


def test_snapshot_is_taken_by_a_button(client, open_page):
    learn(client, {"rows": rows(0, 7)})
    page = open_page(client)
    page.get_by_role("button", name="Take one now").click()
    page.get_by_role("button", name="7 rounds").wait_for()


def test_roll_back_of_a_snapshot_that_is_gone_says_why(client, open_page):
    snapshot_of_40_rows(client)
    page = open_page(client, expected=(REFUSED,))
    page.get_by_role("button", name="40 rounds").click()
    client.run_in_writer(lambda: client.registry.snapshots.remove("m"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Roll back").click()
    dialog.get_by_text("has no snapshot at position").wait_for()
    assert client.registry.models["m"].model.rounds == 60


def test_tokens_are_asked_for_and_stay_in_the_tab(tmp_path, open_page):
    with client_of(tmp_path, Access(read_tokens=(READ,), write_tokens=(WRITE,))) as client:
        snapshot_of_40_rows(client, {"authorization": f"Bearer {WRITE}"})
        page = open_page(client, expected=(REFUSED,))
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Token").fill("wrong")
        dialog.get_by_role("button", name="Continue").click()
        dialog.get_by_text("a bearer token is needed").wait_for()
        dialog.get_by_label("Token").fill(READ)
        dialog.get_by_role("button", name="Continue").click()
        wait_live(page)
        page.get_by_role("button", name="40 rounds").click()
        dialog.get_by_role("button", name="Roll back").click()
        dialog.get_by_text("needs a token that may write").wait_for()
        assert client.registry.models["m"].model.rounds == 60
        dialog.get_by_label("Token").fill(WRITE)
        dialog.get_by_role("button", name="Roll back").click()
        dialog.wait_for(state="hidden")
        assert client.registry.models["m"].model.rounds == 40
        kept = page.evaluate("[JSON.stringify({...localStorage}), document.cookie, document.body.textContent]")
        assert not any(token in text for token in (READ, WRITE) for text in kept)
        (cookie,) = page.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["value"] not in (READ, WRITE)
        page.reload()
        wait_live(page)
        page.goto("about:blank")


def test_cancelled_token_can_be_entered_later(tmp_path, open_page):
    with client_of(tmp_path, Access(read_tokens=(READ,))) as client:
        page = open_page(client, expected=(REFUSED,))
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        wait_live(page, "Needs a token")
        page.get_by_role("button", name="Enter a token").click()
        page.get_by_role("dialog").get_by_label("Token").fill(READ)
        page.keyboard.press("Enter")
        wait_live(page)
        page.locator("#alert").wait_for(state="hidden")
        page.goto("about:blank")


# --- colors, widths, keys, screen readers -----------------------------------------------------


def brightness(page):
    """The brightness of the page's background, from 0 to 255."""
    return page.evaluate("Math.max(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))")


def picture(page):
    """The picture of the first chart."""
    return page.locator("#loss canvas").evaluate("canvas => canvas.toDataURL()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_is_that_of_the_system_until_the_switch_is_used(client, open_page, scheme):
    learn(client, {"rows": rows(0, 200)})
    page = open_page(client, color_scheme=scheme)
    page.locator("#loss canvas").wait_for()
    is_dark, drawn = scheme == "dark", picture(page)
    assert (brightness(page) < 60) == is_dark
    switch = page.locator("#theme")
    while ("dark" in switch.get_attribute("aria-label")) == is_dark or "auto" in switch.get_attribute("aria-label"):
        switch.click()
    assert (brightness(page) < 60) != is_dark
    assert picture(page) != drawn
    page.reload()
    assert (brightness(page) < 60) != is_dark


@pytest.mark.parametrize("width", [400, 800])
def test_narrow_page_does_not_scroll_sideways(client, open_page, width):
    client.request("PUT", "/models/a-name-that-is-as-long-as-names-of-models-may-be-so-64-letters-1", {"copy_of": "m"})
    learn(client, {"rows": rows(0, 200)})
    client.server.figures.error("x" * 300, "/" + "y" * 60, 500)
    page = open_page(client, width=width)
    page.locator("#loss canvas").wait_for()
    page.locator("#errors tbody tr").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for panel in page.locator(".panel:visible, .tiles > div").all():
        box = panel.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    canvas = page.locator("#loss canvas").bounding_box()
    assert width * 0.5 < canvas["width"] <= width


def test_every_chart_has_a_label_and_a_table_for_screen_readers(client, open_page):
    for k in range(200):
        predict(client, {"features": row(k)[0], "id": f"{k}"})
    learn(client, {"rows": [{"id": f"{k}", "label": row(k)[1]} for k in range(200)]})
    page = open_page(client)
    page.locator("#loss canvas").wait_for()
    panels = page.locator(".panel:visible:not(.is-empty)").filter(has=page.locator(".chart")).all()
    assert len(panels) >= 6
    for panel in panels:
        name = panel.locator("h2").inner_text()
        assert panel.locator(".chart").get_attribute("aria-label").startswith(f"{name}: ")
        table = page.get_by_role("table", name=f"{name}: values")  # in the tree of accessibility
        assert table.get_by_role("columnheader").count() > 1
        assert table.get_by_role("rowheader").count() > 0
    button = page.get_by_role("button", name="Table of Progressive log loss")
    hidden = page.locator("#loss .data")
    assert hidden.bounding_box()["height"] <= 1
    button.click()
    assert hidden.bounding_box()["height"] > 50
    assert button.get_attribute("aria-expanded") == "true"


def test_charts_are_read_by_keys(client, open_page):
    learn(client, {"rows": rows(0, 300)})
    page = open_page(client)
    page.locator("#loss canvas").wait_for()
    page.locator("#loss .chart").focus()
    page.keyboard.press("Home")
    assert page.locator("#readout").inner_text().startswith("rows learned 100: Best constant 0.")
    page.keyboard.press("ArrowRight")
    assert page.locator("#readout").inner_text().startswith("rows learned 200: ")
    legend = page.locator("#loss .legend").get_by_role("button", name="Best constant")
    legend.focus()
    page.keyboard.press("Enter")
    assert legend.get_attribute("aria-pressed") == "false"


# --- hostile strings --------------------------------------------------------------------------


def test_names_with_markup_are_texts_and_no_script_runs(tmp_path, open_page):
    specification = {"loss": "log_loss", "labels": [HOSTILE, "yes"]}
    with client_of(tmp_path, models=()) as client:
        assert client.request("PUT", "/models/m", {"specification": specification}).status == 201
        page = open_page(client, f"/#{HOSTILE}")
        wait_live(page)
        client.server.status.compare_weights()  # changes are those since then
        some = [{"features": {HOSTILE: 1.0 + k, "b": 1.0}, "label": (HOSTILE, "yes")[k % 2]} for k in range(120)]
        learn(client, {"rows": some})
        learn(client, {"features": {HOSTILE: {}}, "label": "yes"})
        client.server.figures.error(HOSTILE, HOSTILE, 500)
        page.locator("#weights tbody th", has_text="onerror").wait_for()
        page.locator("#errors tbody td", has_text="onerror").first.wait_for()
        wait_for(page.locator("#errors .route").first, HOSTILE)
        assert HOSTILE in page.locator("#model-about").inner_text()
        assert page.evaluate("window.ran") is None
        assert page.locator("img").count() == 1  # the icon
        assert page.locator("main script").count() == 0
        page.goto("about:blank")


def test_policy_refuses_inline_scripts_and_markup(client, open_page):
    page = open_page(client, expected=("TrustedHTML", "TrustedScript", "Content Security Policy", "violates"))
    wait_live(page)
    refused = page.evaluate(
        """() => {
            const refused = [];
            const tries = [
                () => { document.body.innerHTML = "<b>"; },
                () => {
                    const one = document.createElement("script");
                    one.text = "window.ran = 1";
                    document.body.append(one);
                },
                () => { document.body.setAttribute("onclick", "window.ran = 1"); },
            ];
            for (const attempt of tries) { try { attempt(); } catch (error) { refused.push(error.name); } }
            return refused;
        }"""
    )
    assert refused == ["TypeError", "TypeError", "TypeError"]
    assert page.evaluate("window.ran") is None
