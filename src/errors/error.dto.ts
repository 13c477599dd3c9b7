import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { type ErrorCode, STATUS_OF } from './error-code.js';

/** The body of every answer from 400 on, section 7 of the specification. */
@ApiSchema({ name: 'Error', description: 'Why a request was refused or failed.' })
export class ErrorBody {
  @ApiProperty({
    type: 'string',
    enum: Object.keys(STATUS_OF),
    description: 'What went wrong, for programs. A code never changes its meaning.',
    example: 'not_found' satisfies ErrorCode,
  })
  code!: ErrorCode;

  @ApiProperty({
    type: 'string',
    minLength: 1,
    description: 'What went wrong, for people. The wording may change.',
    example: 'There is no pet with this petId.',
  })
  message!: string;

  @ApiProperty({
    type: 'integer',
    minimum: 400,
    maximum: 599,
    description: 'The HTTP status of the answer once more.',
    example: STATUS_OF.not_found,
  })
  status!: number;
}
