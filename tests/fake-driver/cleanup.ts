/**
 * A program by which the library destroys, for itself, streams that it has made room with, an event that it tried, and the page lock of an
 * array, twice each. Started by fake-driver.test.ts with these calls failing; prints the warnings.
 */
import { Device, ExternalStream, PinnedBuffer, Stream } from 'cuda-streams'

process.on('warning', (warning) => console.log(`${String(Reflect.get(warning, 'code'))}: ${warning.message}`))
const device = Device.get()
for (let nth = 0; nth < 2; nth += 1) {
  const stream = new Stream({ device })
  // Handles of others are compared with what the library learns by objects of its own.
  new ExternalStream(new Stream({ device }).handle, { device }).synchronize()
  PinnedBuffer.from(new Uint8Array(4096), { device }).close()
  await stream.finished()
}
