/**
 * A program by which the library destroys, for itself, streams that it has made room with, an event that it tried, and the page lock of an
 * array, twice each. Started by fake-driver.test.ts with these calls failing; prints the warnings.
 */
import { Device, ExternalStream, PinnedBuffer, Stream } from 'cuda-streams'

process.on('warning', (warning) => console.log(`${String(Reflect.get(warning, 'code'))}: ${warning.message}`))
const device = Device.get()
/** Their page locks stay, so no other array may take their place. */
const arrays = [new Uint8Array(4096), new Uint8Array(4096)]
for (const array of arrays) {
  const stream = new Stream({ device })
  // Handles of others are compared with what the library learns by objects of its own.
  new ExternalStream(new Stream({ device }).handle, { device }).synchronize()
  PinnedBuffer.from(array, { device }).close()
  await stream.finished()
}
