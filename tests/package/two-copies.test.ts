/** Two copies of the package in one program, as two of its dependencies may bring them: messages say which object is of which. */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import * as ours from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { PTX, SIGNATURE } from '../catalogue/adding.js'
import { refused } from '../conformance/expect.js'
import { root } from '../helpers/root.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-copy-'))
after(() => rmSync(folder, { recursive: true, force: true }))
for (const path of ['package.json', 'dist/src', 'dist/native'])
  cpSync(join(root, path), join(folder, path), { recursive: true })

const load = (name: string): Promise<unknown> =>
  import(pathToFileURL(join(folder, 'dist', 'src', 'entry-points', name)).href)

it('an object of another copy is refused with the files of both', async () => {
  const theirs = (await load('index.js')) as typeof ours
  const sim = (await load('sim.js')) as { simulate: typeof simulate }
  const [device] = simulate().devices
  const [other] = sim.simulate().devices
  assert.ok(device && other)
  const [stream, away] = [new ours.Stream({ device }), new theirs.Stream({ device: other })]
  const [memory, remote] = [device.alloc(8, { stream }), other.alloc(8, { stream: away })]
  const event = away.record()
  const graph = away.capture(() => away.fill(remote, 1))
  const kernel = theirs.Module.load(PTX, { device: other }).kernel('add', SIGNATURE)
  const launch = stream.launch.bind(stream) as (...args: readonly unknown[]) => unknown
  const uses: Readonly<Record<string, () => unknown>> = {
    DeviceBuffer: () => stream.copy(memory, remote as never),
    PinnedBuffer: () => stream.fill(other.allocPinned(8) as never, 1),
    Event: () => stream.wait(event as never),
    Stream: () => device.alloc(8, { stream: away as never }),
    Device: () => new ours.Stream({ device: other as never }),
    Kernel: () => launch(kernel, { grid: 1 }),
    GraphExec: () => launch(graph.instantiate()),
  }
  for (const [name, use] of Object.entries(uses)) {
    const says = new RegExp(
      `a ${name} of another copy of cuda-streams, which is file:.*cuda-streams-copy-.*, and this is file:.*one copy$`,
    )
    refused(use, 'ERR_INVALID_ARG_TYPE', says)
  }
  refused(
    () => ours.Stream.prototype.fill.call(away as never, memory, 1),
    'ERR_INVALID_ARG_TYPE',
    /on a Stream itself, not on a Stream of another copy/,
  )
  // What the objects of both say of themselves is as before.
  assert.match(String(away), /^Stream\(0x/)
  assert.deepEqual(Object.keys(event), Object.keys(stream.record()))
})
