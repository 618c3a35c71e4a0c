/** JavaScript that C calls: within a call of C that JavaScript has made, on the same thread, and nowhere else. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { own } from '../../../src/foundation/native/c-functions.js'
import { layer } from '../../../src/foundation/native/layer.js'
import { NativeThread } from '../../../src/foundation/native/native-thread.js'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { compiled, skip } from './compile.js'

const SOURCE = `
#include <stdint.h>
#include <stdatomic.h>
#include <unistd.h>
typedef int64_t CallBack(int64_t, int64_t, int64_t);
int through(CallBack *call_back, uint64_t a, uint64_t b) { return (int)call_back((int64_t)a, (int64_t)b, -3); }
static atomic_int inside, most;
int one_at_a_time(uint64_t microseconds) {
  int now = atomic_fetch_add(&inside, 1) + 1;
  if (now > most) most = now;
  usleep((unsigned)microseconds);
  atomic_fetch_sub(&inside, 1);
  return now;
}
int most_at_once(void) { return most; }
`

describe('a function of JavaScript that C calls', { skip }, () => {
  if (skip !== false) return
  const library = SharedLibrary.open(compiled('callbacks', SOURCE))
  const { through, most_at_once } = library.functions({
    through: 'void *call_back, Word a, Word b',
    one_at_a_time: 'Word microseconds',
    most_at_once: 'void',
  })
  const callBack = layer().functions['callBack'] ?? 0

  test('gets the integers, and its own comes back', () => {
    const given: number[][] = []
    layer().callBackWith((...numbers) => {
      given.push(numbers)
      return -7
    })
    assert.equal(through(callBack, 2 ** 47, 5), -7)
    assert.deepEqual(given, [[2 ** 47, 5, -3]])
  })

  test('is the last that was given, and may call C that calls it again', () => {
    layer().callBackWith(() => 1)
    layer().callBackWith((depth) => (depth === 0 ? 10 : 1 + through(callBack, depth - 1, 0)))
    assert.equal(through(callBack, 20, 0), 30)
  })

  test('that throws, or returns no number, is 0, and the error does not come out elsewhere', () => {
    layer().callBackWith(() => {
      throw new Error('mine')
    })
    assert.equal(through(callBack, 0, 0), 0)
    layer().callBackWith(() => 'text' as never)
    assert.equal(through(callBack, 0, 0), 0)
    assert.throws(() => Reflect.apply(layer().callBackWith, undefined, []), /Too few arguments/)
  })

  test('is not called from another thread', () => {
    layer().callBackWith(() => 1)
    const thread = new NativeThread(library.addressOf('through'), callBack, 0, 0)
    while (thread.result === undefined) own().nap(100)
    assert.equal(thread.result, 0)
  })

  test('callAlone() lets one thread at a time into C', () => {
    const alone = layer().functions['callAlone'] ?? 0
    const threads = Array.from({ length: 4 }, () => new NativeThread(alone, library.addressOf('one_at_a_time'), 2000))
    while (threads.some(({ result }) => result === undefined)) own().nap(100)
    assert.equal(most_at_once(), 1)
  })
})
