/** Nothing that is queued may hang a process. A child that does is killed, and named as a failure. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ofTheDay } from '../helpers/of-the-day.js'
import { onEveryBackend } from '../helpers/suite.js'
import { cases } from './cases.js'
import { LOAD_EACH } from './load.js'
import { loadingCases } from './loading-cases.js'
import { assertCase, assertEnded, runOn } from './run-child.js'

/** In so many days each case has its turn. */
const DAYS = 2
/** What a case takes at most; each is a second or two, the start of CUDA included. */
const CASE_SECONDS = 60
/** What the end of a process or a worker takes at most, with all that it has pending. */
const END_SECONDS = 30
const timeout = (seconds: number): { readonly timeout: number } => ({ timeout: (seconds + 10) * 1000 })

onEveryBackend('torture', (bench) => {
  describe('in a process of its own', () => {
    for (const name of ofTheDay(Object.keys({ ...cases, ...loadingCases }), DAYS)) {
      it(name, timeout(CASE_SECONDS), () => assertCase(bench, name, CASE_SECONDS))
    }
  })

  describe(`a process ends with ${LOAD_EACH} finished() and host functions pending`, () => {
    for (const how of ['exit', 'exit-in-host-function']) {
      it(how, timeout(END_SECONDS), async () => {
        assertEnded(await runOn(bench, './children/exit.js', [how], END_SECONDS), 7)
      })
    }
    for (const how of ['throw', 'throw-in-host-function']) {
      it(how, timeout(END_SECONDS), async () => {
        const outcome = await runOn(bench, './children/exit.js', [how], END_SECONDS)
        assertEnded(outcome, 1)
        assert.match(outcome.stderr, /nobody catches this/)
      })
    }
    it('natural', timeout(CASE_SECONDS), async () => {
      const outcome = await runOn(bench, './children/exit.js', ['natural'], CASE_SECONDS)
      assertEnded(outcome, 0, `${LOAD_EACH} settled`)
    })
  })

  describe(`a worker is terminated with ${LOAD_EACH} finished() and host functions pending`, () => {
    for (const how of ['blocking', 'turning']) {
      it(how, timeout(END_SECONDS), async () => {
        assertEnded(await runOn(bench, './children/terminate.js', [how], END_SECONDS), 0, 'ok')
      })
    }
  })
})
