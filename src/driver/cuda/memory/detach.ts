/**
 * Takes the memory away from an ArrayBuffer that C memory lies under, so that its views are empty and never read what has
 * been freed. structuredClone copies such a buffer instead of detaching it; `ArrayBuffer.prototype.transfer` detaches.
 * V8 has that in Node 20 already, for contexts made while a flag of its is set. The flag is the process's: it stays set,
 * for a thread that cleared it would take the method from another that makes such a context just then.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

type Transfer = (this: ArrayBuffer, newByteLength: number) => ArrayBuffer

let transfer: Transfer | undefined
let looked = false

/** False where it cannot be done: the memory must stay while the buffer can be reached. */
export function detach(buffer: ArrayBuffer): boolean {
  if (!looked) {
    looked = true
    transfer = findTransfer()
  }
  try {
    transfer?.call(buffer, 0)
  } catch {
    // It was detached before, or cannot be: its length tells which.
  }
  return buffer.byteLength === 0
}

function findTransfer(): Transfer | undefined {
  const builtIn: unknown = Reflect.get(ArrayBuffer.prototype, 'transfer')
  if (typeof builtIn === 'function') return builtIn as Transfer
  try {
    setFlagsFromString('--harmony-rab-gsab-transfer')
    const hidden: unknown = runInNewContext('ArrayBuffer.prototype.transfer')
    return typeof hidden === 'function' ? (hidden as Transfer) : undefined
  } catch {
    return undefined
  }
}
