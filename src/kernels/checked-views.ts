/**
 * Views of memory that throw where a twin reads or writes beyond them: a typed array itself says undefined, and drops what is
 * written. They are slow, so only those threads get them that have no element of their own: a GPU runs whole blocks,
 * and the commonest mistake is that the last of them go on.
 */
import { outOfRange } from '../base/errors.js'

type View = Readonly<Record<number, unknown>> & { readonly length: number }

/** So many threads are checked, in the order of `globalX`: the last block has fewer that are too many. */
export const CHECKED_THREADS = 1024

/** The arguments of a twin, with views that check in the place of typed arrays. `names` has a name for each. */
export function checkedViews<Arguments extends readonly unknown[]>(
  kernel: string,
  args: Arguments,
  names: readonly string[],
): Arguments {
  return args.map((value, index) =>
    ArrayBuffer.isView(value) ? checked(value as unknown as View, kernel, names[index] ?? '') : value,
  ) as unknown as Arguments
}

function checked(view: View, kernel: string, name: string): View {
  const check = (key: string | symbol, does: string): void => {
    if (typeof key === 'symbol') return
    const index = Number(key)
    if (String(index) !== key || (Number.isInteger(index) && index >= 0 && index < view.length)) return
    const wayOut = 'a thread that has no element has to return early: if (globalX >= n) return'
    throw outOfRange(
      `The element of ${name}, that kernel '${kernel}' ${does}`,
      `from 0 to ${view.length - 1} (${wayOut})`,
      index,
    )
  }
  return new Proxy(view, {
    get(target, key) {
      check(key, 'reads')
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
    set(target, key, value) {
      check(key, 'writes')
      return Reflect.set(target, key, value, target)
    },
  })
}
