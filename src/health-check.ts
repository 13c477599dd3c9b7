import { answersOk } from './operations/own-address.ts';

/* The health check of the image and of compose: `node dist/health-check.js /health/live`. Exit code 0 if the answer is 200. */
const { HOST = '0.0.0.0', PORT = '3000' } = process.env;
const isOk = await answersOk(HOST, Number(PORT), process.argv[2] ?? '/health/live', 2_500);
process.exit(isOk ? 0 : 1);
