import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** Sends bytes as they are on a connection of their own, and gives all that comes back until it ends. */
export async function sendRaw(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  return text(socket);
}
