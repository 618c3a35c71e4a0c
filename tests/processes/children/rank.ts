/** One rank of tests/processes/ranks.test.ts: rank.js <exchange | leave | absent>. Says what it got, as JSON. */
import { placeOf } from '../../../examples/ranks/environment.js'
import { Rendezvous } from '../../../examples/ranks/rendezvous.js'

const [mode] = process.argv.slice(2)
const place = placeOf(process.env)
const say = (what: unknown): void => console.log(JSON.stringify(what))

if (mode === 'absent') {
  try {
    await Rendezvous.join(place, { timeout: 500 })
    say('met')
  } catch (error) {
    say(String(error))
  }
} else {
  const rendezvous = await Rendezvous.join(place)
  if (mode === 'leave') {
    if (place.rank === 1) process.exit(0)
    try {
      await rendezvous.barrier()
      say('all there')
    } catch (error) {
      say(String(error))
    }
  } else {
    const own = Buffer.alloc([0, 5, 300_000][place.rank] ?? 0, place.rank)
    const all = await rendezvous.allGather(own)
    const first = await rendezvous.broadcast(place.rank === 0 ? Buffer.from('from rank 0') : undefined)
    const sums: number[] = []
    for (let step = 0; step < 50; step += 1) {
      const given = await rendezvous.allGather(Uint8Array.of(place.rank + step))
      sums.push(given.reduce((sum, bytes) => sum + (bytes[0] ?? 0), 0))
    }
    await rendezvous.barrier()
    say({
      rank: place.rank,
      lengths: all.map((bytes) => bytes.length),
      pure: all.every((bytes, index) => bytes.every((byte) => byte === index)),
      first: first.toString(),
      sums,
    })
  }
  rendezvous.close()
}
