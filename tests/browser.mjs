// Open pages in Chromium and say, as JSON, what a person would find there.
//   node tests/browser.mjs CHROMIUM PAGE[,dark][,phone][,nojs]...
import { chromium } from "playwright-core";

const [executablePath, ...visits] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage"],
});
async function look(page_url, words) {
  const context = await browser.newContext({
    colorScheme: words.includes("dark") ? "dark" : "light",
    javaScriptEnabled: !words.includes("nojs"),
    viewport: words.includes("phone") ? { width: 390, height: 800 } : { width: 1280, height: 900 },
  });
  const page = await context.newPage();
  const said = [], asked = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (request.url() !== page_url && !request.url().startsWith("data:")) asked.push(request.url()); });
  await page.goto(page_url);

  const css = (selector, property) => page.locator(selector).first()
    .evaluate((node, name) => getComputedStyle(node)[name], property);
  const found = {
    title: await page.title(),
    text: await page.locator("body").innerText(),
    scripts: await page.locator("script").count(),
    foreign: await page.locator("img, iframe, object, embed, link:not([rel=icon]), base, form").count(),
    holes: await page.locator("td.hole").evaluateAll((cells) => cells.map((cell) => [
      cell.closest("tr").querySelector("th").innerText, cell.title])),
    holes_shown: await page.locator("td.hole").evaluateAll((cells) =>
      cells.filter((cell) => cell.checkVisibility()).length),
    drawings: await page.locator("svg.drawing").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label"))),
    wider: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
    background: await css("body", "backgroundColor"),
  };
  if (await page.locator("td.hole").count()) {
    found.hole_color = await css("td.hole", "backgroundColor");
    found.read_color = (await page.locator("td.read").count()) ? await css("td.read", "backgroundColor") : "";
  }
  // What a wide map says of itself, what the filters leave, what paper shows.
  found.sign = await page.locator(".wide").count() > 0 && await page.locator(".wide").first().isVisible();
  found.scrolls = await page.locator(".scroll").count() > 0 && await page.locator(".scroll").first()
    .evaluate((node) => node.scrollWidth > node.clientWidth + 1);
  const cards = () => page.locator("article").evaluateAll((all) =>
    all.filter((one) => one.checkVisibility()).map((one) => `${one.className} ${one.dataset.rule}`));
  found.cards = await cards();
  if (await page.locator("#any-rule").count()) {
    const radios = page.locator("input[name=rule]");
    found.filtered = {};
    for (let n = 1; n < await radios.count(); n++) {
      await radios.nth(n).check();
      found.filtered[await radios.nth(n).getAttribute("id")] = await cards();
    }
    await page.locator("#any-rule").check();
  }
  if (await page.locator("#show-error").count()) {
    await page.locator("#show-error").uncheck();
    found.without_errors = await cards();
    await page.locator("#show-error").check();
  }
  await page.emulateMedia({ media: "print" });
  if (found.holes.length) {
    found.printed_hole = [await css("td.hole", "backgroundColor"), await css("td.hole", "borderTopWidth"),
      await css("td.hole", "printColorAdjust")];
    found.printed_position = await css(".map thead th", "position");
  }
  await page.emulateMedia({ media: "screen" });
  found.jumps = await page.locator(".jump a").evaluateAll((all) => all.map((one) => one.hash.slice(1)));
  found.jumped = await page.evaluate((ids) => ids.every((id) => document.getElementById(id)), found.jumps);
  if (!words.includes("nojs") && await page.locator("table.map").count()) {
    // As far as the tab key goes until the map has the focus, then on by arrow keys.
    let steps = 0;
    const focused = () => page.evaluate(() => document.activeElement.tagName);
    while (steps++ < 60 && await focused() !== "TD") await page.keyboard.press("Tab");
    found.first_focus = await page.evaluate(() => document.activeElement.title);
    found.first_detail = await page.locator(".detail").first().innerText();
    await page.keyboard.press("ArrowRight");
    found.next_detail = await page.locator(".detail").first().innerText();
    await page.keyboard.press("ArrowUp");
    found.still_cell = await focused();
  }
  await page.locator("table.map a").first().click({ timeout: 2000 }).then(async () => {
    found.target = await page.evaluate(() => location.hash.slice(1));
    found.target_shown = await page.locator(`[id="${found.target}"]`).isVisible();
  }).catch(() => {});
  await context.close();
  return { ...found, said, asked };
}

const seen = [];
for (const visit of visits) {
  const [url, ...words] = visit.split(",");
  seen.push(await look(url, words));
}
await browser.close();
console.log(JSON.stringify(seen));
