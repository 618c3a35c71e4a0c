// The same programs in Node and in the page come to the same: results, console, errors, findings, orders, and each time of each operation.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { findChromium, NO_CHROMIUM } from '../../../dist/tests/helpers/chromium.js'
import { ofTheDay } from '../../../dist/tests/helpers/of-the-day.js'
import { buildRunner, inNode } from './in-node.mjs'
import { OUTCOMES, PROGRAMS } from './programs.mjs'
import { RANDOM_PROGRAMS, randomProgram } from './random-program.mjs'
import { dist, launch, serve } from './serve.mjs'

const skip = findChromium() === undefined ? NO_CHROMIUM : false

/** Each takes half a second in both; all of them at night. */
const COMPARED = process.env.CUDA_STREAMS_TEST_EFFORT === 'nightly' ? RANDOM_PROGRAMS : 16

/** Days within which each program is played. */
const DAYS = 3

/** Where addresses begin depends on the thread. */
const withoutBase = (text) => text.replaceAll(/0x[0-9a-f]{4}(?=[0-9a-f]{8})/g, '0x…')

const same = (a, b, message) => assert.equal(withoutBase(a), withoutBase(b), message)

/** All of it as text: bytes as numbers, NaN as such. */
const plain = (value) =>
  JSON.stringify(
    value,
    (_, part) => (ArrayBuffer.isView(part) ? Array.from(part, String) : typeof part === 'bigint' ? String(part) : part),
    1,
  )

describe('the same in Node and in the page', { skip, timeout: 600_000 }, () => {
  let server
  let browser
  let page

  before(async () => {
    await buildRunner({ withLibrary: true })
    server = await serve()
    browser = await launch()
    page = await browser.newPage()
    await page.goto(`${server.origin}/playground/index.html`)
  })
  after(async () => {
    await browser?.close()
    server?.close()
  })

  const inPage = (what, code) =>
    page.evaluate(
      ([what, code]) =>
        new Promise((done, fail) => {
          const worker = new Worker('library/foundation/base/stack.js', { type: 'module' })
          worker.onerror = ({ message }) => fail(new Error(message))
          worker.onmessage = ({ data }) => {
            if (data.what === 'refused') fail(new Error(data.message))
            const found = data.ran ?? data.explored ?? data.profiles
            if (found === undefined) return
            worker.terminate()
            const plain = (_, part) =>
              ArrayBuffer.isView(part) ? Array.from(part, String) : typeof part === 'bigint' ? String(part) : part
            done(JSON.stringify(found, plain, 1))
          }
          worker.postMessage({ what, code })
        }),
      [what, code],
    )

  const NO_PROGRAMS = ['lessons.ts', 'kernel-files.ts']
  const lessons = readdirSync(join(dist, '..', 'lessons')).filter(
    (name) => /(?<!\.d\.cu)\.ts$/.test(name) && !NO_PROGRAMS.includes(name),
  )
  for (const name of ofTheDay(lessons, DAYS)) {
    it(`the program ${name}`, async () => {
      const code = readFileSync(join(dist, '..', 'lessons', name), 'utf8')
      const ways = ['run', 'explore', ...(code.includes(".cu'") ? ['profile'] : [])]
      for (const what of ways) same(await inPage(what, code), plain(await inNode(what, code)))
    })
  }

  for (const [name, code] of ofTheDay(Object.entries(PROGRAMS), DAYS)) {
    it(name, async () => {
      const ways = name.startsWith('time:') ? ['explore'] : ['run', 'explore']
      for (const what of ways) same(await inPage(what, code), plain(await inNode(what, code)))
    })
  }

  for (const [name, code] of Object.entries(OUTCOMES)) {
    it(name, async () => {
      const { outcome } = JSON.parse(await inPage('run', code))
      assert.deepEqual(outcome, (await inNode('run', code)).outcome)
      assert.deepEqual(outcome.errors, [])
    })
  }

  it(`${COMPARED} random programs`, async () => {
    let errors = 0
    let findings = 0
    for (let seed = 1; seed <= COMPARED; seed += 1) {
      const code = randomProgram(seed)
      const ran = await inNode('run', code)
      errors += Number(ran.outcome.errors.length > 0)
      findings += Number(ran.findings.length > 0)
      same(await inPage('run', code), plain(ran), `seed ${seed}:\n${code}`)
    }
    // They are no empty programs.
    assert.ok(findings > COMPARED / 4 && errors > 0 && errors < COMPARED / 2, `${findings} ${errors}`)
  })
})
