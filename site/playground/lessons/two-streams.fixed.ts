import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const producer = new Stream()
const consumer = new Stream()
const data = device.alloc(4)
const copy = device.alloc(4)

producer.fill(data, 7)
consumer.wait(producer)
consumer.copy(copy, data)

export const result = await consumer.download(copy)
console.log('the copy has', result)
