/**
 * Long tables of which each run of the tests plays a part, which the day decides: within `days` days each row is played, and at night all are.
 * The variable CUDA_STREAMS_TEST_DAY, a number of days since 1970, plays those of another day, and 'all' all.
 */
import { byEffort } from './effort.js'

const MILLISECONDS_OF_A_DAY = 86_400_000
const given = process.env['CUDA_STREAMS_TEST_DAY']
const playsAll = given === 'all' || process.env['CUDA_STREAMS_TEST_BACKENDS'] === 'cuda'
const day = given && !playsAll ? Number(given) : Math.floor(Date.now() / MILLISECONDS_OF_A_DAY)
if (!Number.isSafeInteger(day) || day < 0)
  throw new Error(`CUDA_STREAMS_TEST_DAY must be a number of days since 1970 or 'all', not ${given}`)

/** The rows of today, in their order: each `days`-th, and another part on each of so many days. At least one. On a GPU alone all are. */
export function ofTheDay<T>(rows: readonly T[], days: number, today = day): readonly T[] {
  const part = playsAll ? 1 : byEffort({ quick: days, normal: days, nightly: 1 })
  const chosen = rows.filter((_, index) => (index + today) % part === 0)
  return chosen.length > 0 ? chosen : rows.slice(0, 1)
}

/** What a test says of a table that it plays in part. */
export const playedToday = (played: number, all: number): string =>
  played === all ? `all ${all} rows` : `${played} of ${all} rows, those of day ${day}: --nightly plays all`
