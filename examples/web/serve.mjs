// node serve.mjs SITE BUNDLE [PORT]: serve the site, and the bundle under /bundle/, on this machine
// alone. The headers let WebAssembly use threads, and forbid the page any other host.

import { createReadStream, statSync } from "node:fs";
import http from "node:http";
import path from "node:path";

const [site, bundle, port = "8000"] = process.argv.slice(2);
if (!bundle) {
  console.error("usage: node serve.mjs SITE BUNDLE [PORT]");
  process.exit(2);
}
const KINDS = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".wasm": "application/wasm",
};
const HEADERS = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Content-Security-Policy":
    "default-src 'self' blob:; img-src 'self' data:; script-src 'self' blob: 'wasm-unsafe-eval'; worker-src 'self' blob:",
  "Cache-Control": "no-cache",
};

/** The file of an address, or null: never one outside the two folders. */
function fileOf(address) {
  const name = decodeURIComponent(new URL(address, "http://localhost").pathname);
  const inBundle = name.startsWith("/bundle/");
  const root = path.resolve(inBundle ? bundle : site);
  const file = path.resolve(root, `./${inBundle ? name.slice(8) : name === "/" ? "index.html" : name}`);
  if (!file.startsWith(root + path.sep)) return null;
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() ? { file, size: found.size } : null;
}

const server = http.createServer((request, response) => {
  let found = null;
  try {
    found = fileOf(request.url);
  } catch {
    // an address that is none
  }
  if (!found) {
    response.writeHead(404, HEADERS).end("not here\n");
    return;
  }
  const kind = KINDS[path.extname(found.file)] ?? "application/octet-stream";
  response.writeHead(200, { ...HEADERS, "Content-Type": kind, "Content-Length": found.size });
  createReadStream(found.file).pipe(response);
});
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
