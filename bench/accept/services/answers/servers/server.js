// A web server with a cache in memory: `node server.js PORT [ENTRIES]`.
//
// Each GET looks up 64 of the ENTRIES (300000, some 180 MiB) by chance and answers with JSON. It prints
// "ready" when it listens, ends on SIGTERM or SIGINT with status 0, and after 15 minutes by itself.
"use strict";
const http = require("http");

const LOOKUPS = 64;
const port = Number(process.argv[2]);
const entries = Number(process.argv[3] || 300000);

const cache = new Map();
for (let i = 0; i < entries; i++)
  cache.set(`item:${i}`, { id: i, name: `name of item ${i}`, price: (i * 37) % 1000, tags: [i % 7, i % 11, i % 13] });

let state = 1;
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}

const server = http.createServer((request, response) => {
  let sum = 0;
  let last = null;
  for (let i = 0; i < LOOKUPS; i++) {
    last = cache.get(`item:${random(entries)}`);
    sum += last.price + last.tags[1];
  }
  const body = JSON.stringify({ sum, last });
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
  response.end(body);
});

function end() {
  server.close(() => process.exit(0));
  server.closeAllConnections();
}
process.on("SIGTERM", end);
process.on("SIGINT", end);
setTimeout(end, 15 * 60 * 1000).unref();
server.listen(port, "127.0.0.1", () => console.log("ready"));
