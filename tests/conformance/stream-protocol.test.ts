/** S6: how other libraries hand a stream over, and what is not taken from them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CudaStreamLike, cudaStream, ExternalStream, type PythonStreamLike, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, refused, stillWorks } from './expect.js'

const ours = (handle: bigint | number): CudaStreamLike => ({ [cudaStream]: () => [0, handle] })
const pythons = (handle: bigint | number): PythonStreamLike => ({ __cuda_stream__: () => [0, handle] })

onEveryBackend('the stream protocol', (bench) => {
  const { device } = bench
  const withForeign = (test: (handle: bigint) => void): void => {
    const handle = bench.foreignStream(device)
    try {
      test(handle)
    } finally {
      bench.destroyForeignStream(handle)
    }
  }

  test('S6 both spellings hand a stream over, to every call', () => {
    withForeign((handle) => {
      assert.equal(cudaStream, Symbol.for('cuda.stream'))
      using target = bench.stream()
      for (const source of [ours(handle), ours(Number(handle)), pythons(handle), pythons(Number(handle))]) {
        device.run(() => {
          using wrapped = new ExternalStream(source)
          using from = Stream.from(source)
          using created = device.createStream(source)
          for (const stream of [wrapped, from, created]) assert.equal(stream.handle, handle)
          assert.equal(target.wait(source), target)
        })
      }
      stillWorks(bench, target)
    })
  })

  test('S6 a stream of ours speaks the protocol', () => {
    using stream = bench.stream()
    assert.deepEqual(stream[cudaStream](), [0, stream.handle])
    assert.deepEqual(device.defaultStream[cudaStream](), [0, 0n])
  })

  test('S6 with both spellings the symbol wins, and methods get their this', () => {
    withForeign((handle) => {
      const source = {
        handle,
        [cudaStream]() {
          return [0, this.handle] as const
        },
        __cuda_stream__: () => assert.fail('the symbol should have won'),
      }
      using wrapper = new ExternalStream(source, { device })
      assert.equal(wrapper.handle, handle)
    })
  })

  test('S6 what the method throws comes through', () => {
    const mine = new Error('mine')
    const fail = (): never => {
      throw mine
    }
    using target = bench.stream()
    for (const source of [{ [cudaStream]: fail }, { __cuda_stream__: fail }]) {
      const uses = [() => new ExternalStream(source), () => device.createStream(source), () => target.wait(source)]
      for (const use of uses) assert.throws(use, (error) => error === mine)
    }
    stillWorks(bench, target)
  })

  test('S6 another version or shape is ERR_INVALID_ARG_TYPE', () => {
    withForeign((handle) => {
      using target = bench.stream()
      const replies: readonly unknown[] = [
        ...[[1, handle], [-1, handle], ['0', handle], [null, handle], [0], [0, handle, 1], [], handle, Number(handle)],
        ...[undefined, null, 'x', { 0: 0, 1: handle, length: 2 }, Promise.resolve([0, handle])],
        ...[
          [0, 'x'],
          [0, 1.5],
          [0, undefined],
          [0, {}],
          [0, [handle]],
          [0, Number.NaN],
        ],
      ]
      for (const reply of replies) {
        const answer = (): never => reply as never
        for (const [name, source] of [
          ['cudaStream', { [cudaStream]: answer }],
          ['__cuda_stream__', { __cuda_stream__: answer }],
        ] as const) {
          const says = [new RegExp(name), /must be/]
          refused(() => new ExternalStream(source, { device }), 'ERR_INVALID_ARG_TYPE', ...says)
          refused(() => target.wait(source), 'ERR_INVALID_ARG_TYPE', ...says)
        }
      }
      stillWorks(bench, target)
    })
  })

  test('S6 a reply of the right shape with a wrong handle is refused as the handle is', () => {
    const codes: readonly (readonly [bigint | number, string])[] = [
      [-1n, 'ERR_OUT_OF_RANGE'],
      [2n ** 47n, 'ERR_OUT_OF_RANGE'],
      [42, 'ERR_INVALID_HANDLE'],
    ]
    for (const [handle, code] of codes) {
      refused(() => new ExternalStream(ours(handle), { device }), code, new RegExp(`${handle}|0x`))
      try {
        device.createStream(pythons(handle))
        assert.fail('it was wrapped')
      } catch (error) {
        checkError(error, code)
      }
    }
  })
})
