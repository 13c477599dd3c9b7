// The limit: node:http sends a buffer it already has. No key, no database.
import { createServer } from 'node:http';

const body = Buffer.alloc(Number(process.env['BODY_BYTES']), ' ');
const headers = { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': body.length };

createServer((_request, response) => {
  response.writeHead(200, headers).end(body);
}).listen(Number(process.env['PORT']), '127.0.0.1');
