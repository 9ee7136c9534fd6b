// Render GitHub-flavoured Markdown from standard input as HTML, raw HTML kept for the test to see.
import { readFileSync } from "node:fs";
import { micromark } from "micromark";
import { gfm, gfmHtml } from "micromark-extension-gfm";

process.stdout.write(micromark(readFileSync(0, "utf8"), {
  allowDangerousHtml: true, extensions: [gfm()], htmlExtensions: [gfmHtml()],
}));
