/** The benchmark of a server runs without a GPU, says so, and its clients refuse answers that are wrong. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Child } from '../../bench/line-process.js'
import { readResult } from '../../bench/result.js'
import { root } from '../helpers/root.js'

const LIMIT_MS = 30_000
const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-server-test-'))
const script = (name: string): string => join(root, 'dist', 'bench', `${name}.js`)
const bench = (...args: readonly string[]) =>
  spawnSync(process.execPath, [script('server'), ...args], {
    encoding: 'utf8',
    env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim' },
  })

describe('the benchmark of a server', () => {
  after(() => rmSync(scratch, { recursive: true, force: true }))

  it('measures every server and number of clients, and says what it lacks', () => {
    const json = join(scratch, 'server.json')
    const { status, stdout, stderr } = bench('--seconds', '1', '--rounds', '2', '--clients', '1,4', '--json', json)
    assert.equal(status, 0, stderr)
    const { rows, contestants, failures, leftOut } = readResult(json)
    assert.deepEqual(failures, [])
    assert.deepEqual(
      rows.map(({ key }) => key),
      ['requests', 'median', 'percentile', 'request'].flatMap((key) => [`${key}-1`, `${key}-4`]),
    )
    const names = contestants.map(({ name }) => name)
    assert.deepEqual(names.slice(0, 4), ['cuda-streams', 'a stream a request', 'over node:http', 'echo in Node'])
    for (const name of names) {
      for (const { samples, key } of rows) assert.ok(samples[name]?.length === 2 && !samples[name].includes(null), key)
    }
    for (const name of ['echo in Python', 'PyTorch', 'PyTorch, polls', 'PyTorch, threads']) {
      assert.ok(names.includes(name) || leftOut.some((line) => line.startsWith(`${name}: `)), name)
    }
    assert.match(stdout, /left out +a GPU/)
  })

  it('prints where the microseconds of a request go', () => {
    const { status, stdout, stderr } = bench('--profile', '--seconds', '3', '--clients', '1,4')
    assert.equal(status, 0, stderr)
    const tables = stdout.trim().split('\n\n')
    assert.equal(tables.length, 4, stdout)
    for (const [nth, name] of ['cuda-streams', 'a stream a request', 'over node:http', 'echo in Node'].entries()) {
      const [head = '', , ...lines] = tables[nth]?.split('\n') ?? []
      assert.match(head, new RegExp(`^\\| ${name}, µs of a request .* 1 clients .* 4 clients \\|$`))
      // Of both numbers of clients: a turn is short, and has few samples where the machine has other work.
      const times = new Map(
        lines.map((line) => {
          const [, part = '', one, four] = line.split('|')
          return [part.trim(), Number(one) + Number(four)]
        }),
      )
      assert.ok(Number(times.get('HTTP')) > 0, head)
      const ofLibrary = ['allocation and upload', 'launches', 'download', 'free', 'wait'].map((part) =>
        Number(times.get(part)),
      )
      assert.equal(Math.max(...ofLibrary) > 0, name !== 'echo in Node', `${head}: ${ofLibrary}`)
    }
  })

  it('refuses what it does not know', () => {
    const { status, stderr } = bench('--clients', '1,0')
    assert.notEqual(status, 0)
    assert.match(stderr, /--clients must be 1 or more, not '1,0'/)
  })

  const answers: Readonly<Record<string, readonly [RequestListener, RegExp]>> = {
    'a wrong float': [(request, response) => void request.pipe(response), /^fail float 0 is -2000, not 9 \* -2000$/],
    'a wrong length': [(_, response) => void response.end('short'), /^fail unexpected answer/],
    'an error': [
      (_, response) => void response.writeHead(500).end('out of memory'),
      /^fail unexpected answer: HTTP\/1.1 500/,
    ],
    'the end of the connection': [(request) => void request.socket.destroy(), /^fail /],
  }
  for (const [title, [listener, expected]] of Object.entries(answers)) {
    it(`reports ${title}`, async () => {
      const server = createServer((request, response) => {
        if (title === 'a wrong float') response.setHeader('Content-Length', request.headers['content-length'] ?? '')
        listener(request, response)
      })
      const clients = new Child(process.execPath, [script('server-load')], process.env)
      try {
        await once(server.listen(0, '127.0.0.1'), 'listening')
        const address = server.address()
        assert.ok(typeof address === 'object' && address !== null)
        clients.say(`${address.port} 1 100 9`)
        assert.match(await clients.line(LIMIT_MS), expected)
      } finally {
        await clients.leave()
        server.close()
      }
    })
  }
})
