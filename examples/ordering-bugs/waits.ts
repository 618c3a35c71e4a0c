/** Waits that are left out, or that wait for something else than meant. */
import { add, bug, type OrderingBug, read, scale, set } from './scene.js'

export const waits: readonly OrderingBug[] = [
  bug(
    {
      name: 'missing wait',
      story: 'A consumer on a second stream reads what a producer on the first writes, and nothing joins the two.',
      missing: 'consumer.wait(producer) before the kernel',
    },
    async ({ stream, zeros }, fixed) => {
      const [producer, consumer] = [stream(), stream()]
      const [data, result] = [zeros(), zeros()]
      set(producer, data, 7)
      if (fixed) consumer.wait(producer)
      scale(consumer, result, data, 2)
      return read(consumer, result)
    },
  ),

  bug(
    {
      name: 'wrong event',
      story: 'Two producers have an event each, and the consumer of the first waits for the event of the second.',
      missing: 'consumer.wait(leftDone) before the kernel that reads left',
    },
    async ({ stream, zeros }, fixed) => {
      const [first, second, consumer] = [stream(), stream(), stream()]
      const [left, right, result] = [zeros(), zeros(), zeros()]
      set(first, left, 3)
      const leftDone = first.record()
      set(second, right, 4)
      const rightDone = second.record()
      consumer.wait(fixed ? leftDone : rightDone)
      scale(consumer, result, left, 10)
      return read(consumer, result)
    },
  ),

  bug(
    {
      name: 'wait before the record',
      story: 'The consumer waits for an event that is recorded only afterwards; such a wait waits for nothing.',
      missing: 'consumer.wait(ready) after producer.record(ready), not before',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [producer, consumer] = [stream(), stream()]
      const [data, result] = [zeros(), zeros()]
      const ready = device.createEvent()
      if (!fixed) consumer.wait(ready)
      set(producer, data, 5)
      producer.record(ready)
      if (fixed) consumer.wait(ready)
      scale(consumer, result, data, 3)
      return read(consumer, result)
    },
  ),

  bug(
    {
      name: 're-recorded event',
      story:
        'One event serves two producers: the second record takes the place of the first, which is waited for no more.',
      missing: 'consumer.wait(first) before the kernel: the event has come to mean the second producer',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [first, second, consumer] = [stream(), stream(), stream()]
      const [left, right] = [zeros(), zeros()]
      const done = device.createEvent()
      set(first, left, 1)
      first.record(done)
      if (fixed) consumer.wait(done)
      set(second, right, 2)
      second.record(done)
      consumer.wait(done)
      add(consumer, right, left)
      return read(consumer, right)
    },
  ),

  bug(
    {
      name: 'record before the work',
      story: 'The event is recorded before the copy that it stands for, so the consumer waits for what came earlier.',
      missing: 'producer.record(copied) after the copy, not before',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [producer, consumer] = [stream(), stream()]
      const [source, data, result] = [zeros(), zeros(), zeros()]
      const copied = device.createEvent()
      set(producer, source, 6)
      if (!fixed) producer.record(copied)
      producer.copy(data, source)
      if (fixed) producer.record(copied)
      consumer.wait(copied)
      scale(consumer, result, data, 2)
      return read(consumer, result)
    },
  ),

  bug(
    {
      name: 'one of two consumers waits',
      story: 'Two streams read what a third produces, and only one of them waits for it.',
      missing: 'right.wait(ready) before the kernel of the second consumer',
    },
    async ({ stream, zeros }, fixed) => {
      const [producer, left, right] = [stream(), stream(), stream()]
      const [data, doubled, tripled] = [zeros(), zeros(), zeros()]
      set(producer, data, 11)
      const ready = producer.record()
      left.wait(ready)
      scale(left, doubled, data, 2)
      if (fixed) right.wait(ready)
      scale(right, tripled, data, 3)
      return [await read(left, doubled), await read(right, tripled)]
    },
  ),

  bug(
    {
      name: 'one of two producers is waited for',
      story: 'A kernel adds what two streams produce, and waits for one of them.',
      missing: 'consumer.wait(second) before the kernel',
    },
    async ({ stream, zeros }, fixed) => {
      const [first, second, consumer] = [stream(), stream(), stream()]
      const [left, right] = [zeros(), zeros()]
      set(first, left, 20)
      set(second, right, 1)
      consumer.wait(first)
      if (fixed) consumer.wait(second)
      add(consumer, left, right)
      return read(consumer, left)
    },
  ),

  bug(
    {
      name: 'wait the wrong way round',
      story: 'The producer waits for the consumer, where the consumer should wait for the producer.',
      missing: 'consumer.wait(producer) instead of producer.wait(consumer)',
    },
    async ({ stream, zeros }, fixed) => {
      const [producer, consumer] = [stream(), stream()]
      const [data, result] = [zeros(), zeros()]
      set(producer, data, 9)
      if (fixed) consumer.wait(producer)
      else producer.wait(consumer)
      scale(consumer, result, data, 1)
      return read(consumer, result)
    },
  ),

  bug(
    {
      name: 'null stream and a non-blocking stream',
      story: 'Work on the null stream is taken to wait for every stream; for a non-blocking one it does not.',
      missing: 'nullStream.wait(worker) before the kernel, or a worker with { nonBlocking: false }',
    },
    async ({ device, stream, zeros }, fixed) => {
      const worker = stream({ nonBlocking: !fixed })
      const [data, result] = [zeros(), zeros()]
      set(worker, data, 8)
      scale(device.defaultStream, result, data, 4)
      return read(device.defaultStream, result)
    },
  ),
]
