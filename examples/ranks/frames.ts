/** Pieces of bytes over a TCP connection: the length as a little-endian u32, then the bytes. */
import type { Socket } from 'node:net'

const LONGEST = 2 ** 28

/** Resolves when the bytes are on their way, and rejects where the connection is broken. */
export function send(socket: Socket, bytes: Uint8Array): Promise<void> {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(bytes.length)
  return new Promise((resolve, reject) => {
    socket.write(Buffer.concat([length, bytes]), (error) => (error ? reject(error) : resolve()))
  })
}

/** Ends when the other side does, and throws where the connection breaks. */
export async function* frames(socket: Socket): AsyncGenerator<Buffer, void> {
  let chunks: Buffer[] = []
  let have = 0
  let need = 4
  let inside = false
  for await (const chunk of socket) {
    chunks.push(chunk as Buffer)
    have += (chunk as Buffer).length
    while (have >= need) {
      const all = Buffer.concat(chunks)
      const part = all.subarray(0, need)
      chunks = [all.subarray(need)]
      have -= need
      if (inside) yield part
      need = inside ? 4 : part.readUInt32LE()
      inside = !inside
      if (need > LONGEST) throw new Error(`a piece of ${need} bytes was announced, and ${LONGEST} is the most`)
    }
  }
}
