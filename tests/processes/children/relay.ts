/** One of two ranks that share memory and events: with the wait, and without. Says how many rounds were right. */
import { Device } from 'cuda-streams'
import { placeOf } from '../../../examples/ranks/environment.js'
import { relay } from '../../../examples/ranks/relay.js'
import { Rendezvous } from '../../../examples/ranks/rendezvous.js'

const rounds = 100
const rendezvous = await Rendezvous.join(placeOf(process.env))
const device = Device.get(0)
const waited = await relay(rendezvous, device, { rounds, wait: true })
const unwaited = await relay(rendezvous, device, { rounds, wait: false })
console.log(JSON.stringify({ rounds, waited, unwaited }))
rendezvous.close()
